"""The vocabulary: frozen value types that travel between the rooms. Nothing here touches the outside world."""
