//! Gives memory back that only the start needed.
#![allow(unsafe_code, reason = "the C library lists the segments of a program only in C")]

use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::job::{Job, JobContext, NextRun};

/// When after the start, and once more after that: the other jobs have run by then.
const AFTER_START: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(25)];
/// Without a third time: a busy server would have to map its code again while visitors wait.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// Gives back the pages of the program. The kernel maps whole groups of pages around each one that
/// is needed once: after a start they are 18 of 31 MB. They stay in the kernel's cache, and those
/// in use are mapped again at once.
#[derive(Default)]
pub struct ProgramPages {
    runs: usize,
}

#[async_trait]
impl Job for ProgramPages {
    fn name(&self) -> &'static str {
        "program pages"
    }

    fn interval(&self) -> Duration {
        NEVER
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        let run = self.runs;
        self.runs += 1;
        if (1..=AFTER_START.len()).contains(&run) {
            let bytes = tokio::task::spawn_blocking(give_back).await?;
            tracing::debug!(bytes, "gave back the pages of the program");
        }
        Ok(AFTER_START.get(run).map_or(NextRun::Interval, |delay| NextRun::After(*delay)))
    }
}

/// Gives back all code and constants of the program and its libraries. Returns their size.
fn give_back() -> usize {
    let mut bytes = 0_usize;
    #[cfg(target_os = "linux")]
    {
        let data = (&raw mut bytes).cast();
        // SAFETY: the function is called for each object until this call returns, with `data`,
        // which points to a number that nothing else uses meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(give_back_object), data) };
    }
    bytes
}

/// Called by the C library for the program and each of its libraries.
#[cfg(target_os = "linux")]
unsafe extern "C" fn give_back_object(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    data: *mut libc::c_void,
) -> libc::c_int {
    const PAGE: usize = 4096;
    // SAFETY: the C library passes a valid description that lives until this function returns.
    let (start, headers) = unsafe {
        let info = &*info;
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        (info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    for header in headers {
        let is_constant = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0;
        // Whole pages, in memory of this program.
        let (Ok(from), Ok(length)) =
            (usize::try_from(start + header.p_vaddr), usize::try_from(header.p_memsz))
        else {
            continue;
        };
        let (from, to) = (from.next_multiple_of(PAGE), (from + length) / PAGE * PAGE);
        if !is_constant || from >= to {
            continue;
        }
        let address = std::ptr::with_exposed_provenance_mut::<libc::c_void>(from);
        // SAFETY: a segment that may not be written is an unchanged part of its file: the next
        // access maps the same bytes again. Segments with relocations are writable ones, and stay.
        let given = unsafe { libc::madvise(address, to - from, libc::MADV_DONTNEED) };
        if given == 0 {
            // SAFETY: `data` is the number that `give_back` passes.
            unsafe { *data.cast::<usize>() += to - from };
        }
    }
    0
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// The resident bytes of the mapped files.
    fn of_files() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    #[test]
    fn the_program_goes_on_with_fewer_pages() {
        let before = of_files();
        let given = give_back();
        let after = of_files();
        assert!(given > 1 << 20, "{given}");
        assert!(after < before, "{before} and then {after}");
        assert_eq!(format!("{:?}", "still here".parse::<String>()), "Ok(\"still here\")");
    }
}
