"""``svdkl doctor``: whether everything works here."""

from svdkl.cli.arguments import JSON
from svdkl.cli.output import print_json


def doctor(json: JSON = False) -> int:
    """Look at versions, machine and compiled parts, and train a tiny model from end to end.

    The exit code is 0 if all that is needed works, and 1 if not.
    """
    from svdkl.doctor import FAIL, examine

    findings = []
    for finding in examine():
        findings.append(finding)
        if not json:
            way_out = f"\n{'':24}{finding.way_out}" if finding.way_out else ""
            print(f"{finding.status:4}  {finding.name:16}  {finding.text}{way_out}", flush=True)
    healthy = all(finding.status != FAIL for finding in findings)
    if json:
        print_json({"healthy": healthy, "findings": [finding._asdict() for finding in findings]})
    else:
        print("All that is needed works." if healthy else "Not all that is needed works: see FAIL above.")
    return 0 if healthy else 1
