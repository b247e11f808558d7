//! A memory-mapped file. The only unsafe code of the redirect plane.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// A new file of a fixed size, mapped into memory. Dropping it unmaps the file and does not delete
/// it.
///
/// The blocks are reserved before the file is mapped, so that a full disk is an error here and not
/// a signal during a write. If another process truncates the mapped file, the next write ends this
/// process (`SIGBUS`). Therefore only our user can open it: mode 0600 in a folder of mode 0700.
///
/// Copy-on-write file systems (btrfs, ZFS) guarantee less: the reservation may not cover a page
/// that was written back and changes again, so a completely full disk can still end the process.
pub(super) struct SegmentMap(MmapMut);

impl SegmentMap {
    /// Creates the file, which must not exist, and maps it. With `prefaulted`, all pages are in
    /// memory when this returns.
    pub(super) fn create(path: &Path, bytes: usize, prefaulted: bool) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        reserve(&file, bytes)?;
        // SAFETY: the mapped memory must change only through the slices made from it. This process
        // has just created the file under a unique name, and only our user can open it. This is its
        // only mapping; all other code reads the file with system calls, which copy. The size of
        // the file never changes again.
        let mut map = unsafe { MmapMut::map_mut(&file)? };
        if prefaulted {
            prefault(&mut map);
        }
        Ok(Self(map))
    }

    /// The bytes of the file.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Reserves the blocks of the file on disk.
fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes as u64) {
        Ok(()) => Ok(()),
        // Some file systems cannot reserve blocks; writing zeros allocates them.
        Err(Errno::NOTSUP | Errno::NOSYS) => write_zeros(file, bytes),
        Err(error) => Err(error.into()),
    }
}

fn write_zeros(mut file: &File, bytes: usize) -> io::Result<()> {
    const ZEROS: &[u8] = &[0; 64 * 1024];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(ZEROS.len());
        file.write_all(&ZEROS[..now])?;
        left -= now;
    }
    // Some file systems report a full disk only now.
    file.sync_data()
}

/// Loads all pages before the first click needs them. If that fails, the kernel loads them one by
/// one.
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
    fn bytes_written_to_the_mapping_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let mut map = SegmentMap::create(&path, 20_000, true).unwrap();
        assert_eq!(map.bytes().len(), 20_000);
        map.bytes()[19_999] = 7;
        // The file is still mapped; readers see the change at once.
        let read = std::fs::File::options().read(true).open(&path).unwrap();
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut &read, &mut bytes).unwrap();
        assert_eq!((bytes.len(), bytes[0], bytes[19_999]), (20_000, 0, 7));
        assert_eq!(read.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(SegmentMap::create(&path, 20_000, true).is_err(), "the file must not exist");
    }

    #[test]
    fn a_size_beyond_the_disk_is_an_error_and_not_a_signal() {
        let folder = tempfile::tempdir().unwrap();
        assert!(SegmentMap::create(&folder.path().join("huge"), 1 << 55, false).is_err());
    }

    #[test]
    fn zeros_are_written_where_blocks_cannot_be_reserved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zeros");
        let file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
        write_zeros(&file, 150_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 150_000);
    }
}
