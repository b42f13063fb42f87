"""Long work in separate processes: a queue and a worker per device, and a process per job."""
