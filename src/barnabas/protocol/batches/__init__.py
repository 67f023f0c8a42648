"""Record batches of magic 2: the only place that knows a batch's bytes."""
