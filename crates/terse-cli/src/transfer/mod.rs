//! Links in files of this computer: positions of interrupted imports, and exports. The core reads
//! files with links (`terse_core::import_file`).

mod digest;
mod format;
mod resume;
mod writer;

pub(crate) use digest::digest_of;
pub(crate) use format::Format;
pub(crate) use resume::{ImportCounts, ImportPosition};
pub(crate) use writer::Writer;
