"""The health of a server and its queues, the doctor, and the rights of each role."""
