//! The API of the local data folder, for commands: the server that runs on the folder or, if none
//! does, the same router inside this process.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use terse_cli::{ApiClient, InProcessApi};
use url::Url;

use crate::backends::{DataDir, DataDirError, LockGuard};
use crate::config::{Config, Secret};

/// The longest time that a starting server may take to write its address.
const STARTING: Duration = Duration::from_secs(3);

/// Finds the API of the data folder. A folder without a store is refused: a command in the wrong
/// folder must not create one.
pub(crate) fn open(config: &Config) -> anyhow::Result<ApiClient> {
    let missing = || {
        format!(
            "there is no store in {}: name its folder with --data-dir or its server with \
             --server, or create it with `terse serve`",
            config.data_dir.display()
        )
    };
    let dir = DataDir::existing(&config.data_dir)
        .filter(|dir| config.has_store() || dir.was_locked())
        .with_context(missing)?;
    let deadline = Instant::now() + STARTING;
    loop {
        let in_use = match dir.lock() {
            Ok(lock) if config.has_store() => return in_process(config, lock),
            Ok(_) => anyhow::bail!(missing()),
            // A server that starts for the first time may not have created its store yet.
            Err(error @ DataDirError::InUse { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        if let Some(run) = dir.read_run()? {
            if let Some(socket) = run.url.strip_prefix("unix:") {
                let (socket, key) = (Path::new(socket), Secret::new(&run.key));
                return Ok(ApiClient::unix_socket(socket, key, place_of(config)));
            }
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
    // Several threads call the API at once, and run their requests themselves.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
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
        std::fs::write(config(temp.path()).store_file(), "").unwrap();
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
        let api = open(&config(temp.path())).unwrap();
        assert_eq!(api.call(&Method::GET, "/api/v1/urls", None).unwrap().status, 200);
        let asked = asked.join().unwrap();
        assert!(asked.starts_with("GET /api/v1/urls HTTP/1.1\r\n"), "{asked}");
        assert!(asked.to_lowercase().contains("authorization: bearer the-key\r\n"), "{asked}");
    }

    #[test]
    fn a_folder_without_a_store_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let absent = temp.path().join("absent");
        for folder in [absent.as_path(), temp.path()] {
            let error = open(&config(folder)).err().unwrap();
            assert!(error.to_string().contains("--data-dir"), "{error}");
        }
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "nothing was created");
    }
}
