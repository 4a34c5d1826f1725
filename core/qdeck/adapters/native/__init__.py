"""qdeck's own queue, read as every other adapter reads its system."""
