"""From inputs to positions on the lattice: x -> features h -> bounded coordinates -> groups."""
