"""Commits: conflict rules, manifests, the replace snapshot, retries and clean-up."""
