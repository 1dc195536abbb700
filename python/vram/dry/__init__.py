"""``vram.dry_run()``: a training step on tensors without memory, and how much memory it would take. See docs/dry-run.md."""

from vram.dry._run import DryRun, DryRunContribution, DryRunFits, DryRunPeak, dry_run

__all__ = ["DryRun", "DryRunContribution", "DryRunFits", "DryRunPeak", "dry_run"]
