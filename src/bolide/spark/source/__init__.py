"""The live source: topics of a running cluster as rows, in batches and streams."""
