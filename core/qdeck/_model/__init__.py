"""The values that adapters produce and every face shows, their words and codes, the verdict on them, and masking."""
