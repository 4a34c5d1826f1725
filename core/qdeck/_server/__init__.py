"""What is read from a server and kept there: queues, workers, history, the log of operations, tasks of agents."""
