//! Fuzz targets for all code that parses untrusted bytes. See `tests/targets`.
