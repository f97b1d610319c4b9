"""The operator for Kubernetes: keeps the schedules of a service equal to the policies of a cluster."""
