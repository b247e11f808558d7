//! Fuzz targets for everything that strangers' bytes reach. See `tests/targets`.
