use clap::error::ErrorKind;

use super::*;

fn parse(line: &str) -> Result<Cli, ErrorKind> {
    Cli::try_parse_from(line.split(' ')).map_err(|error| error.kind())
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn serving_is_what_happens_without_a_command() {
    assert!(parse("terse").unwrap().command.is_none());
    assert!(matches!(
        parse("terse serve --listen 127.0.0.1:1").unwrap().command,
        Some(Command::Serve(_))
    ));
}

#[test]
fn the_flags_of_serve_work_without_it() {
    let serve = |line: &str| {
        let cli = parse(line).unwrap();
        match with_serve_args(cli.command, cli.serve).unwrap() {
            Command::Serve(args) => (args.listen, args.base_url, args.roles),
            other => panic!("{other:?}"),
        }
    };
    let all = (Some(":1".into()), Some("http://a".into()), Some("web".into()));
    assert_eq!(serve("terse --listen :1 --base-url http://a --roles web"), all);
    assert_eq!(serve("terse --listen :1 serve --base-url http://a --roles web"), all);
    assert_eq!(serve("terse --listen :2 serve --listen :1").0.as_deref(), Some(":1"));
    let error = run(parse("terse --listen :1 list").unwrap(), Vec::new()).unwrap_err();
    assert!(error.is::<terse_cli::UsageError>(), "{error:#}");
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    for line in [
        "terse nonsense",
        "terse shorten",
        "terse shorten https://e.com/ --ttl 5",
        "terse shorten https://e.com/ --ttl 1h --expires 2030-01-01",
        "terse delete",
        "terse --server ftp://x list",
        "terse --server https://u:p@go.example list",
        "terse --set nonsense list",
        "terse list --limit 0",
        "terse stats abc --orphans",
        "terse stats --domain b.example",
        "terse top --minutes 61",
        "terse top --every soon",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn an_edit_of_nothing_is_wrong_usage() {
    let error = run(parse("terse edit abc").unwrap(), Vec::new()).unwrap_err();
    assert!(error.is::<terse_cli::UsageError>(), "{error:#}");
}

#[test]
fn flags_may_stand_before_or_behind_the_command() {
    for line in ["terse --json --data-dir /x list", "terse list --json --data-dir /x"] {
        let cli = parse(line).unwrap();
        assert!(cli.global.json);
        assert_eq!(cli.global.data_dir.as_deref(), Some("/x"));
    }
}

#[test]
fn a_key_is_never_shown() {
    let cli = parse("terse --server https://go.example --key hunter2hunter2 list").unwrap();
    assert!(!format!("{cli:?}").contains("hunter2"));
}

#[test]
fn the_manual_knows_every_command() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md"))
            .unwrap();
    for command in Cli::command().get_subcommands() {
        let name = command.get_name();
        assert!(
            page.contains(&format!("\n## `terse {name}")),
            "docs/commands.md does not speak of {name}"
        );
        for argument in command.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(
                page.contains(&format!("`--{argument}")),
                "docs/commands.md does not speak of {name} --{argument}"
            );
        }
    }
}
