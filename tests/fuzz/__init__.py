"""Coverage-guided fuzzing of what reads files: `make fuzz`. Its corpus is replayed by `test_fuzz_corpus.py`."""
