"""Recording a workload: the parent process, which starts and monitors a child process, and the code of the child."""
