"""The chunks of a shuffle on their way: in files of a scratch directory, or from Spark into a file of the worker."""
