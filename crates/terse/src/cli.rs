//! The command line: parses arguments and runs the commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use terse_cli::RemoteServer;
use terse_traces::TraceLayer;
use url::Url;

use crate::commands;
use crate::config::{Config, ConfigSources, LoadedConfig, Secret};
use crate::{local_api, logging, serve};

/// A URL shortener: one binary, durable links, very fast redirects.
///
/// Without a command, terse serves. Commands about links work on a remote server (--server), on
/// the server that is running on the data folder or, if none is running, on the data folder
/// itself.
#[derive(Debug, Parser)]
#[command(
    name = "terse",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  terse                                         serve on 127.0.0.1:8080, data in ./terse-data
  terse --listen :80                            serve on port 80 of all addresses
  terse shorten https://example.com/some/page   create a short link and print it
  terse list                                    the newest links
  terse --server https://go.example list        the same, on a remote server (key in TERSE_KEY)

Exit codes: 0 done, 1 refused or failed, 2 wrong usage."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(flatten, next_help_heading = "Without a command")]
    serve: ServeArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Options of every command.
#[derive(Args, Debug)]
struct GlobalArgs {
    /// The settings file [default: terse.toml, if it exists]
    #[arg(
        long,
        global = true,
        help_heading = "Everywhere",
        display_order = 900,
        value_name = "FILE",
        env = "TERSE_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,
    /// The data folder
    #[arg(
        long,
        global = true,
        help_heading = "Everywhere",
        display_order = 900,
        value_name = "DIR"
    )]
    data_dir: Option<String>,
    /// Any setting, as in --set cache.ttl=1m (may be repeated)
    #[arg(long, global = true, help_heading = "Everywhere", display_order = 900,
        value_name = "NAME=VALUE", value_parser = parse_set)]
    set: Vec<(String, String)>,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = "Everywhere", display_order = 900)]
    json: bool,
    /// Work on the server at this URL
    #[arg(long, global = true, help_heading = "Everywhere", display_order = 900,
        value_name = "URL", env = "TERSE_SERVER", hide_env_values = true,
        value_parser = parse_server)]
    server: Option<Server>,
    /// The API key for --server; prefer TERSE_KEY, as other users of the machine can see arguments
    #[arg(long, global = true, help_heading = "Everywhere", display_order = 900,
        value_name = "KEY", env = "TERSE_KEY", hide_env_values = true, value_parser = parse_key)]
    key: Option<Secret>,
}

/// A server's URL; an empty variable means no server.
#[derive(Clone, Debug)]
struct Server(Option<Url>);

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve redirects, the API and pages
    #[command(after_help = "\
Examples:
  terse serve --listen 0.0.0.0:80 --base-url https://go.example
  terse serve --roles redirect,worker")]
    Serve(ServeArgs),
    #[command(flatten)]
    Api(Box<terse_cli::Command>),
    /// Copy the store into a new folder, also while serving
    Backup(terse_cli::BackupArgs),
    /// Replace the store with a backup
    Restore(terse_cli::RestoreArgs),
    /// Move the data folder into a PostgreSQL database
    Migrate(commands::migrate::MigrateArgs),
    /// List, read and check the archive of clicks
    Archive(commands::archive::ArchiveArgs),
    /// Count the visits that a CDN answered, from its log
    ImportClicks(commands::import_clicks::ImportClicksArgs),
    /// Count the clicks in the journal of a node that does not come back
    Ship(commands::ship::ShipArgs),
    /// Find problems, and say how to solve them
    Doctor(terse_cli::DoctorArgs),
    /// Ask the running server whether it can serve
    Health(terse_cli::HealthArgs),
    /// Check that terse works on this machine, on a temporary folder
    SelfTest(terse_cli::SelfTestArgs),
    /// Measure how fast a server is
    Bench(terse_cli::bench::BenchArgs),
    /// Print the settings in force, secrets hidden
    Config(commands::config::ConfigArgs),
    /// Print completions for a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands into a folder
    ManPages(commands::man_pages::ManPagesArgs),
}

/// Settings that are often set on the command line.
#[derive(Args, Debug, Default)]
struct ServeArgs {
    /// The address to listen on; :PORT is all addresses [setting: listen]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The start of every short URL [setting: base_url]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// What this process does: redirect, api, web, worker [setting: roles]
    #[arg(long, value_name = "ROLE,…")]
    roles: Option<String>,
}

/// The context of commands that work on the data folder itself.
pub(crate) struct LocalContext {
    pub(crate) loaded: LoadedConfig,
    pub(crate) json: bool,
}

impl LocalContext {
    pub(crate) fn config(&self) -> &Config {
        &self.loaded.config
    }
}

/// Runs the command of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.global.json;
    match run(cli, std::env::vars_os().collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS, // the reader closed the pipe
        Err(error) => {
            eprintln!("{}", terse_cli::describe(&error, json));
            if error.is::<terse_cli::UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.downcast_ref::<std::io::Error>().is_some_and(is)
}

/// Runs a command. `false` if it found a problem that it has already printed.
fn run(cli: Cli, env: Vec<(OsString, OsString)>) -> anyhow::Result<bool> {
    let command = with_serve_args(cli.command, cli.serve)?;
    if let Command::Completions { shell } = command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "terse", &mut script);
        terse_cli::terminal::say(String::from_utf8_lossy(&script).trim_end())?;
        return Ok(true);
    }
    if let Command::ManPages(args) = command {
        return args.run(Cli::command());
    }
    if let Command::SelfTest(args) = command {
        return args.run(cli.global.json);
    }
    let mut flags = cli.global.set;
    flags.extend(cli.global.data_dir.map(|dir| ("data_dir".into(), dir)));
    if let Command::Serve(args) = &command {
        let given =
            [("listen", &args.listen), ("base_url", &args.base_url), ("roles", &args.roles)];
        flags.extend(
            given.into_iter().filter_map(|(name, value)| Some((name.into(), value.clone()?))),
        );
    }
    let key_file =
        env.iter().find(|(name, _)| name == "TERSE_KEY_FILE").map(|(_, path)| PathBuf::from(path));
    let key_file = key_file.filter(|path| !path.as_os_str().is_empty());
    let sources = ConfigSources {
        file: cli.global.config.filter(|path| !path.as_os_str().is_empty()),
        env,
        flags,
    };
    let loaded = match Config::load(&sources) {
        Ok(loaded) => loaded,
        Err(error) if matches!(command, Command::Doctor(_)) => {
            return terse_cli::without_settings(&error.into(), cli.global.json);
        }
        Err(error) => return Err(error.into()),
    };
    if let Command::Serve(_) = command {
        let traces = &loaded.config.traces;
        let traces = traces.url.as_ref().map(|_| TraceLayer::new(traces.sample.millionths()));
        let (layer, spans) = traces.unzip();
        let set_log_level = logging::start(&loaded.config.log, layer)?;
        let load = Box::new(move || anyhow::Ok(Config::load(&sources)?.config));
        let reload = serve::Reload { load, set_log_level };
        return serve::run(loaded.config, spans, reload).map(|()| true);
    }
    if let Command::Bench(options) = command {
        let key = key(cli.global.key, key_file)?.or(loaded.config.admin_key);
        let report = terse_cli::bench::run(options.with_key(key))?;
        report.print(cli.global.json)?;
        return Ok(true);
    }
    let remote = match cli.global.server.and_then(|server| server.0) {
        Some(server) => Some(RemoteServer { server, key: key(cli.global.key, key_file)? }),
        None => None,
    };
    let json = cli.global.json;
    if let Command::Api(command) = command {
        let local = Box::new(move || local_api::open(&loaded.config));
        return command.run(&terse_cli::CommandContext { json, remote, local });
    }
    let only_here = |command: &str| {
        anyhow::ensure!(
            remote.is_none(),
            "{command} works on the machine that holds the data, not through --server"
        );
        Ok(())
    };
    let context = LocalContext { loaded, json };
    match command {
        Command::Backup(command) => {
            only_here("backup")?;
            let config = context.config();
            let backup = terse_cli::BackupContext {
                files_in: &|dir| commands::backup::files_in(config, dir),
                storage: &|| crate::backends::backup_storage(config),
            };
            command.run(&backup, json)
        }
        Command::Restore(command) => {
            only_here("restore")?;
            command.run(&commands::backup::files(context.config())?, json)
        }
        Command::Migrate(command) => only_here("migrate").and_then(|()| command.run(&context)),
        Command::Archive(command) => only_here("archive").and_then(|()| command.run(&context)),
        Command::ImportClicks(command) => {
            only_here("import-clicks").and_then(|()| command.run(&context))
        }
        Command::Ship(command) => only_here("ship").and_then(|()| command.run(&context)),
        Command::Doctor(command) => {
            only_here("doctor")?;
            let config = context.loaded.config;
            let checks = commands::doctor::checks(&config);
            let of = config.clone();
            let server = Box::new(move || commands::doctor::server(&of));
            let local = Box::new(move || local_api::open(&config));
            command.run(&checks, &terse_cli::DoctorContext { json, server, local })
        }
        Command::Health(command) => {
            only_here("health")?;
            command.run(&commands::health::address(context.config())?, json)
        }
        Command::Config(command) => command.run(&context),
        // Done above.
        Command::Api(_)
        | Command::Serve(_)
        | Command::Bench(_)
        | Command::SelfTest(_)
        | Command::ManPages(_)
        | Command::Completions { .. } => Ok(true),
    }
}

/// The command, with the arguments of `serve`, which may come before or after it. Without a
/// command, terse serves.
fn with_serve_args(command: Option<Command>, before: ServeArgs) -> anyhow::Result<Command> {
    let ServeArgs { listen, base_url, roles } = before;
    match command {
        None => Ok(Command::Serve(ServeArgs { listen, base_url, roles })),
        Some(Command::Serve(behind)) => Ok(Command::Serve(ServeArgs {
            listen: behind.listen.or(listen),
            base_url: behind.base_url.or(base_url),
            roles: behind.roles.or(roles),
        })),
        Some(command) => {
            if listen.is_some() || base_url.is_some() || roles.is_some() {
                let why = "--listen, --base-url and --roles belong to `terse serve`";
                return Err(terse_cli::UsageError(why).into());
            }
            Ok(command)
        }
    }
}

fn key(given: Option<Secret>, file: Option<PathBuf>) -> anyhow::Result<Option<Secret>> {
    match (given.filter(|key| !key.reveal().is_empty()), file) {
        (Some(_), Some(_)) => {
            anyhow::bail!("both a key and TERSE_KEY_FILE are set; use one of them")
        }
        (None, Some(file)) => {
            let text = std::fs::read_to_string(&file)
                .with_context(|| format!("reading the key in {}", file.display()))?;
            Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))))
        }
        (key, None) => Ok(key),
    }
}

fn parse_set(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected, as in cache.ttl=1m")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

fn parse_server(text: &str) -> Result<Server, String> {
    if text.is_empty() {
        return Ok(Server(None));
    }
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or("an http:// or https:// URL is expected, as in https://go.example")?;
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(
            "only scheme, host, port and path belong here; give the key as TERSE_KEY".into()
        );
    }
    Ok(Server(Some(url)))
}

fn parse_key(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
