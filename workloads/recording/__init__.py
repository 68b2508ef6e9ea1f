"""Recording a program: the parent that starts and follows a child, and the child itself."""
