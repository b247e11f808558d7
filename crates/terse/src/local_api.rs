//! The API of the local data folder, for commands: the server that runs on the folder or, if none
//! does, the same router inside this process.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use terse_cli::{Absent, ApiClient, InProcessApi};
use url::Url;

use crate::backends::{DataDir, DataDirError, LockGuard};
use crate::config::{Config, Secret};

/// The longest time that a starting server may take to write its address.
const STARTING: Duration = Duration::from_secs(3);

/// Finds the API of the data folder.
pub(crate) fn open(config: &Config, absent: Absent) -> anyhow::Result<ApiClient> {
    let dir = match (DataDir::existing(&config.data_dir), absent) {
        (Some(dir), _) => dir,
        (None, Absent::Make) => DataDir::open(&config.data_dir)?,
        (None, Absent::Refuse) => bail!(
            "there is no data folder {}: name one with --data-dir, or a server with --server",
            config.data_dir.display()
        ),
    };
    let deadline = Instant::now() + STARTING;
    loop {
        let in_use = match dir.lock() {
            Ok(lock) => return in_process(config, lock),
            Err(error @ DataDirError::InUse { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        if let Some(run) = dir.read_run()? {
            let base = Url::parse(&run.url).context("run.json does not say where the server is")?;
            return Ok(ApiClient::same_machine(base, Secret::new(&run.key), place_of(config)));
        }
        if Instant::now() >= deadline {
            return Err(anyhow::Error::new(in_use).context(
                "a server that cannot be reached holds the data folder; name it with --server",
            ));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn in_process(config: &Config, lock: LockGuard) -> anyhow::Result<ApiClient> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (router, key, store) = runtime.block_on(crate::serve::in_process_api(config))?;
    let base = config.base_url();
    let host = match (base.host_str().unwrap_or("localhost"), base.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    };
    // The store closes before the folder's lock is released.
    let guard = Box::new((store, lock));
    let api = InProcessApi { router, key, host, runtime, guard };
    Ok(ApiClient::in_process(api, place_of(config)))
}

/// The absolute path of the data folder, whether or not a server is running on it.
fn place_of(config: &Config) -> String {
    config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone()).display().to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use http::Method;

    use super::*;
    use crate::backends::RunInfo;

    fn config(dir: &std::path::Path) -> Config {
        Config { data_dir: dir.to_owned(), ..Config::default() }
    }

    #[test]
    fn a_running_server_is_reached_with_the_key_it_left() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        let _server = dir.lock().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let (mut asked, mut buffer) = (Vec::new(), [0; 4096]);
            while !asked.ends_with(b"\r\n\r\n") {
                let count = socket.read(&mut buffer).unwrap();
                asked.extend_from_slice(&buffer[..count]);
            }
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            String::from_utf8(asked).unwrap()
        });
        dir.write_run(&RunInfo { pid: 1, url, key: "the-key".into() }).unwrap();
        let api = open(&config(temp.path()), Absent::Refuse).unwrap();
        assert_eq!(api.call(&Method::GET, "/api/v1/urls", None).unwrap().status, 200);
        let asked = asked.join().unwrap();
        assert!(asked.starts_with("GET /api/v1/urls HTTP/1.1\r\n"), "{asked}");
        assert!(asked.to_lowercase().contains("authorization: bearer the-key\r\n"), "{asked}");
    }

    #[test]
    fn without_a_folder_there_is_nothing_to_ask() {
        let temp = tempfile::tempdir().unwrap();
        let absent = temp.path().join("absent");
        let error = open(&config(&absent), Absent::Refuse).err().unwrap();
        assert!(error.to_string().contains("--data-dir"), "{error}");
        assert!(!absent.exists());
    }
}
