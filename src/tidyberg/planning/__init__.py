"""Plans: pure functions that choose, pack and price files. No I/O, no clock, no Spark."""
