"""What `make demo` runs, small."""

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "four_designs.py"


def test_it_trains_compares_and_names_what_diverged(tmp_path):
    losses = tmp_path / "losses.json"
    sizes = ["--steps", "3", "--depth", "2", "--width", "16", "--batch", "2", "--length", "16", "--rate", "1e6"]
    run = subprocess.run(
        [sys.executable, str(EXAMPLE), "admin", '{"kind": "no_norm"}', *sizes, "--json", str(losses)],
        capture_output=True,
        encoding="utf-8",
        env={"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1", "COLUMNS": "120"},
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "self-attention" in run.stdout
    assert "Held-out loss after 3 steps" in run.stdout
    assert "Diverged" in run.stdout or "Stalled" in run.stdout
    assert set(json.loads(losses.read_text())) == {"admin", '{"kind": "no_norm"}'}
