"""A call over HTTP becomes an action on a queue, step by step, with both ways side by side."""
