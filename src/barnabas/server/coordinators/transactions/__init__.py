"""The transaction coordinator's shell: producer ids, verification, and writing markers."""
