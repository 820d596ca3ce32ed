"""What a release is made of beside the packages; ``scripts/release.sh`` runs it."""
