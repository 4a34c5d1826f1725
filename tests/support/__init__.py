"""What the tests are built on: servers, a fault proxy, processes."""
