"""Long work in processes of its own: a queue for each device, one worker, one process a job."""
