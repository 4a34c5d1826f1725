"""The worker: claims jobs, runs them on the loop, in threads or in processes, and reports how they ended."""
