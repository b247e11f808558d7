//! A listening Unix socket.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context as _;
use terse_redirect::Listener;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// Every user may connect, as with a port: the folder of the socket says who reaches it.
const MODE: u32 = 0o666;

/// Whether no process listens at a socket any more. Does not wait for one that is busy.
fn is_abandoned(path: &Path) -> io::Result<bool> {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&socket2::SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        // Its queue is full.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(false),
    }
}

/// Listens at a path. Replaces the socket of a process that ended without removing it.
pub(super) fn listen(path: &Path) -> anyhow::Result<Listener> {
    let shown = path.display();
    if let Ok(there) = std::fs::symlink_metadata(path) {
        anyhow::ensure!(
            there.file_type().is_socket(),
            "listening on unix:{shown}: there is a file that is no socket"
        );
        let is_abandoned = is_abandoned(path)
            .with_context(|| format!("listening on unix:{shown}: asking who listens there"))?;
        anyhow::ensure!(is_abandoned, "listening on unix:{shown}: another process listens there");
        std::fs::remove_file(path)
            .with_context(|| format!("removing the old socket unix:{shown}"))?;
    }
    let open = || -> io::Result<Listener> {
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
        socket.bind(&socket2::SockAddr::unix(path)?)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE))?;
        socket.listen(BACKLOG)?;
        Ok(Listener::Unix(socket.into()))
    };
    open().with_context(|| format!("listening on unix:{shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_of_a_dead_process_is_replaced_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("terse.sock");
        let living = listen(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        let error = listen(&path).unwrap_err().to_string();
        assert!(error.contains("another process listens there"), "{error}");
        drop(living);
        drop(listen(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "text").unwrap();
        let error = listen(&path).unwrap_err().to_string();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    }
}
