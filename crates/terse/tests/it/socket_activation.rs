//! `LISTEN_FDS`: another process holds the listening socket, so that a restart fails no request.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::process::{Served, command};

const TIMEOUT: Duration = Duration::from_secs(30);

/// `terse serve` with the listener as file descriptor 3, as systemd starts it.
fn activated(data: &Path, listener: &TcpListener, listen: SocketAddr) -> Command {
    let plain = command(data);
    let mut activated = Command::new("sh");
    activated
        .args(["-c", "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(plain.get_args())
        .args(["serve", "--listen", &listen.to_string(), "--set", "base_url=http://go.example"])
        .args(["--set", "shutdown.drain_delay=200ms", "--set", "redirect.store_timeout=30s"])
        .current_dir(data.parent().expect("a folder"))
        .stdin(OwnedFd::from(listener.try_clone().expect("a socket")))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // Settings of the environment that `command` leaves out.
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => activated.env(name, value),
            None => activated.env_remove(name),
        };
    }
    activated
}

/// One request on a connection of its own: the status.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /there HTTP/1.1\r\nhost: go.example\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.get(..12).unwrap_or_default().to_owned())
}

#[test]
fn a_restart_under_load_fails_no_request() {
    const RESTARTS: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let start = || Served::spawn(&data, &mut activated(&data, &listener, address));
    let mut served = start();
    assert_eq!(served.url, format!("http://{address}"));
    let made =
        command(&data).args(["shorten", "https://example.com/", "--alias", "there"]).output();
    assert!(made.unwrap().status.success());

    let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let served = std::thread::scope(|scope| {
        let visitors: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let status = ask(address).expect("an answer");
                        assert_eq!(status, "HTTP/1.1 302");
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let busy = || visitors.iter().all(|visitor| !visitor.is_finished());
        let wait_for_more = |more: u64| {
            let (from, begun) = (answered.load(Ordering::Relaxed), Instant::now());
            while busy() && answered.load(Ordering::Relaxed) < from + more {
                assert!(begun.elapsed() < TIMEOUT, "visitors wait");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for_more(50);
        for _ in 0..RESTARTS {
            served.terminate();
            let (status, said) = served.wait();
            assert!(status.success(), "{status}: {said}");
            served = start();
            wait_for_more(50);
        }
        over.store(true, Ordering::Relaxed);
        for visitor in visitors {
            visitor.join().expect("no request failed");
        }
        served
    });
    assert!(answered.load(Ordering::Relaxed) >= 200);
    served.kill();
}

#[test]
fn a_socket_that_no_setting_names_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut child = activated(&data, &listener, other).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && begun.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("which is neither listen"), "{said}");
}
