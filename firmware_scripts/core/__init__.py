"""Pure decisions about disks, images and confirmations: no file, process or clock is touched."""
