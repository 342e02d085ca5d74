"""The commands of `jaxrl`: arguments and printing, one file each."""
