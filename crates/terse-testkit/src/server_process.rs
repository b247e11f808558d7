//! The process of a server that tests start: how it starts, ends and is cleaned up.
#![allow(clippy::unwrap_used, reason = "tests stop where their server does not start")]

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a start may take on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server in a folder of its own. It ends with the process of the tests, however that ends, and
/// its folder is removed then.
pub(crate) struct ServerProcess {
    folder: PathBuf,
    /// The user that runs it, if not this process' own.
    user: Option<(u32, u32)>,
    /// A shell around the server. It ends the server when its standard input, which this process
    /// holds open, is closed.
    shell: Mutex<Option<Child>>,
}

impl ServerProcess {
    /// A server that is not started yet.
    pub(crate) fn new(folder: PathBuf, user: Option<(u32, u32)>) -> Self {
        Self { folder, user, shell: Mutex::new(None) }
    }

    /// Starts the program and waits until it is ready. Its output goes into the file `log`.
    pub(crate) fn start(&self, program: &Path, args: &[&str], is_ready: impl Fn() -> bool) {
        let mut shell = self.shell.lock().unwrap();
        assert!(shell.is_none(), "the server runs already");
        // PostgreSQL ends at once at QUIT; others end at TERM.
        let script = "folder=$1; shift; \"$@\" >\"$folder/log\" 2>&1 & server=$!; cat >/dev/null; \
                      kill -QUIT $server 2>/dev/null; kill $server 2>/dev/null; wait $server; \
                      [ -e \"$folder/keep\" ] || rm -rf \"$folder\"";
        let folder = &self.folder;
        let mut command = command("sh", self.user);
        command.args(["-c", script, "sh"]).arg(folder).arg(program).args(args).current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        *shell = Some(command.spawn().unwrap());
        drop(shell);
        let begun = Instant::now();
        while !is_ready() {
            assert!(begun.elapsed() < START_TIMEOUT, "{program:?} does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server at once and keeps its folder, so that it can be started again.
    pub(crate) fn stop(&self) {
        std::fs::write(self.folder.join("keep"), "").unwrap();
        if let Some(mut shell) = self.shell.lock().unwrap().take() {
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
        std::fs::remove_file(self.folder.join("keep")).unwrap();
    }

    /// What the server has logged since its start.
    pub(crate) fn log(&self) -> String {
        let log = std::fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Sends a signal to the server, the child of the shell with this name.
    pub(crate) fn signal(&self, signal: &str, name: &str) {
        assert!(self.try_signal(signal, name));
    }

    /// The same. Returns whether there is such a server.
    pub(crate) fn try_signal(&self, signal: &str, name: &str) -> bool {
        let pid = self.shell.lock().unwrap().as_ref().map(|shell| shell.id().to_string());
        let Some(pid) = pid else { return false };
        let done = Command::new("pkill").args([signal, "-P", &pid, name]).status();
        done.unwrap().success()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if let Some(mut shell) = self.shell.get_mut().ok().and_then(Option::take) {
            drop(shell.stdin.take());
            let _ended = shell.wait();
        } else {
            let _removed = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// A command that runs as another user, if one is given.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command.env("LC_ALL", "C.UTF-8");
    command
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A new folder that the other user may enter.
pub(crate) fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("terse-server-{}-{n}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    // A folder of an earlier process with this id.
    let _removed = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    folder
}
