"""The journal on disk, with integrity checks, snapshots, backups and erasing."""
