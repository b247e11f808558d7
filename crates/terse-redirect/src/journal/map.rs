//! A file as memory. The only unsafe code of the redirect plane.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// A new file of a fixed size, mapped. Dropping it unmaps; the file stays.
///
/// The file's blocks are reserved before it is mapped: a full disk is met here, as an error, and
/// never while writing. Whoever truncates the file while it is mapped ends the process (`SIGBUS`),
/// so its name and its folder are for us alone: mode 0600 in a folder of mode 0700.
///
/// File systems that copy on write (btrfs, ZFS) promise less: what is reserved may not cover a page
/// that was written back and is then written again, so a disk that is full to the brim can still
/// end the process there.
pub(super) struct Map(MmapMut);

impl Map {
    /// Makes the file, which must not exist, and maps it; if wished, with all its pages there
    /// already.
    pub(super) fn create(path: &Path, bytes: usize, prefaulted: bool) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        reserve(&file, bytes)?;
        // SAFETY: a mapping must not be changed behind the back of the slices made from it. The
        // file was made by us just now, under a name that nobody else uses, and is readable and
        // writable for our user only. Our own process maps it once, here, and otherwise only reads
        // it through system calls, which copy. No one shortens it: the size never changes again.
        let mut map = unsafe { MmapMut::map_mut(&file)? };
        if prefaulted {
            prefault(&mut map);
        }
        Ok(Self(map))
    }

    /// All of the file.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Has the disk set aside what the file will need.
fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes as u64) {
        Ok(()) => Ok(()),
        // Some file systems cannot promise: what is written there once is there.
        Err(Errno::NOTSUP | Errno::NOSYS) => write_zeros(file, bytes),
        Err(error) => Err(error.into()),
    }
}

fn write_zeros(mut file: &File, bytes: usize) -> io::Result<()> {
    static PIECE: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(PIECE.len());
        file.write_all(&PIECE[..now])?;
        left -= now;
    }
    // A file system may find out late that it is full.
    file.sync_data()
}

/// Has every page there before the first click needs it. Only a wish: without it the pages come one
/// by one.
fn prefault(map: &mut MmapMut) {
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::PopulateWrite);
    #[cfg(not(target_os = "linux"))]
    let _ = map;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_written_into_the_memory_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let mut map = Map::create(&path, 20_000, true).unwrap();
        assert_eq!(map.bytes().len(), 20_000);
        map.bytes()[19_999] = 7;
        // Mapped still: what reads sees it at once.
        let read = std::fs::File::options().read(true).open(&path).unwrap();
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut &read, &mut bytes).unwrap();
        assert_eq!((bytes.len(), bytes[0], bytes[19_999]), (20_000, 0, 7));
        assert_eq!(read.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Map::create(&path, 20_000, true).is_err(), "a file is made once");
    }

    #[test]
    fn a_size_that_the_disk_does_not_have_is_an_error_and_not_a_signal() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Map::create(&folder.path().join("huge"), 1 << 55, false).is_err());
    }

    #[test]
    fn zeros_are_as_good_as_a_promise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zeros");
        let file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
        write_zeros(&file, 150_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 150_000);
    }
}
