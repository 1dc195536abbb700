"""``vram.dry_run()``: a training step on tensors without memory, and how much memory it would take. See docs/dry-run.md."""

from vram.dry._dry_run import DryRun, WhatIf, WhatIfs, dry_run, predict
from vram.dry._results import DryRunContribution, DryRunFits, DryRunPeak

__all__ = ["DryRun", "DryRunContribution", "DryRunFits", "DryRunPeak", "WhatIf", "WhatIfs", "dry_run", "predict"]
