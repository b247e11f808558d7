use super::*;
use crate::config::{ByteSize, HumanDuration, Roles};

fn sources(file: Option<&Path>, env: &[(&str, &str)], flags: &[(&str, &str)]) -> ConfigSources {
    ConfigSources {
        file: file.map(Into::into),
        env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        flags: flags.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
    }
}

fn from_toml(text: &str) -> Result<LoadedConfig, ConfigError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    load(&sources(Some(file.path()), &[], &[]))
}

fn refusal(env: &[(&str, &str)]) -> String {
    load(&sources(None, env, &[])).unwrap_err().to_string()
}

#[test]
fn each_layer_has_the_last_word_over_those_before() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "listen = \"127.0.0.1:1\"\n[cache]\nttl = \"1m\"\nnegative_ttl = \"1s\"\n",
    )
    .unwrap();
    let env = [("TERSE_CACHE__TTL", "2m"), ("TERSE_LISTEN", "127.0.0.1:2"), ("PATH", "/bin")];
    let loaded = load(&sources(Some(file.path()), &env, &[("listen", "127.0.0.1:3")])).unwrap();
    let config = &loaded.config;
    assert_eq!(config.listen.tcp().unwrap().port(), 3);
    assert_eq!(config.cache.ttl, HumanDuration::secs(120));
    assert_eq!(config.cache.negative_ttl, HumanDuration::secs(1));
    assert_eq!(config.redirect, Default::default());
    assert_eq!(loaded.origin("listen"), SettingOrigin::Flag);
    assert_eq!(loaded.origin("cache.ttl"), SettingOrigin::Env("TERSE_CACHE__TTL".into()));
    assert_eq!(loaded.origin("cache.negative_ttl"), SettingOrigin::File(file.path().into()));
    assert_eq!(loaded.origin("cache.size"), SettingOrigin::Default);
}

#[test]
fn variables_are_read_as_the_kind_their_setting_has() {
    let env = [
        ("TERSE_DOMAINS", "b.example, c.example,"),
        ("TERSE_ANONYMOUS__CREATE", "false"),
        ("TERSE_CODES__LENGTH", "9"),
        ("TERSE_CACHE__SIZE", "1GiB"),
        ("TERSE_ROLES", "redirect,worker"),
        ("TERSE_ADMIN__LISTEN", ""),
    ];
    let config = load(&sources(None, &env, &[])).unwrap().config;
    assert_eq!(config.domains, ["b.example", "c.example"]);
    assert!(!config.anonymous.create);
    assert_eq!(config.codes.length, 9);
    assert_eq!(config.cache.size.unwrap().bytes(), 1 << 30);
    assert_eq!(config.roles, Roles { redirect: true, api: false, web: false, worker: true });
    assert_eq!(config.admin.listen, None);
}

#[test]
fn an_unknown_name_is_refused_in_every_layer() {
    for (env, want) in [
        ("TERSE_LISTN", "did you mean TERSE_LISTEN?"),
        ("TERSE_CACHE_TTL", "did you mean TERSE_CACHE__TTL?"),
        ("TERSE_WHATEVER_THIS_IS", "there is no setting TERSE_WHATEVER_THIS_IS"),
        ("TERSE_listen", "did you mean TERSE_LISTEN?"),
    ] {
        let error = refusal(&[(env, "x")]);
        assert!(error.contains(want), "{error}");
    }
    for (text, want) in [
        ("listne = 1", "did you mean listen?"),
        ("[cahce]\nttl = \"1m\"", "did you mean cache.ttl?"),
        ("[cache]\nsise = 1", "did you mean cache.size?"),
        ("negative_ttl = \"5s\"", "no setting negative_ttl; did you mean cache.negative_ttl?"),
        ("[nonsense]", "there is no setting nonsense"),
        ("listen.port = 1", "there is no setting listen.port"),
        ("cache = 5", "this is a section"),
    ] {
        let error = from_toml(text).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
    let error = load(&sources(None, &[], &[("cache.tttl", "1m")])).unwrap_err().to_string();
    assert_eq!(error, "flag: there is no setting cache.tttl; did you mean cache.ttl?");
    assert!(from_toml("[cache]").is_ok());
    assert!(from_toml("").is_ok());
}

#[test]
fn variables_that_are_no_settings_are_left_alone() {
    let env = [
        ("TERSE_CONFIG", "x"),
        ("TERSE_SERVER", "x"),
        ("TERSE_KEY", "x"),
        ("TERSE_TEST_POSTGRES", "x"),
        ("TERSE_SERVICE_HOST", "10.0.0.1"),
        ("TERSE_SERVICE_PORT_HTTP", "80"),
        ("TERSE_PORT", "tcp://10.0.0.1:80"),
        ("TERSE_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("TERSE_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("TERSE_WEB_PORT_80_TCP_PROTO", "tcp"),
        ("TERSELY", "x"),
    ];
    assert!(load(&sources(None, &env, &[])).is_ok());
    assert!(refusal(&[("TERSE_PORT", "8080")]).contains("TERSE_PORT"));
}

#[test]
fn a_value_can_come_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "a-very-long-secret-key\r\n").unwrap();
    let path = file.path().to_str().unwrap();
    let config = load(&sources(None, &[("TERSE_ADMIN_KEY_FILE", path)], &[])).unwrap().config;
    assert_eq!(config.admin_key.unwrap().reveal(), "a-very-long-secret-key");
    let both =
        refusal(&[("TERSE_ADMIN_KEY_FILE", path), ("TERSE_ADMIN_KEY", "another-long-secret-key")]);
    assert!(both.contains("are both set") && !both.contains("secret"), "{both}");
    assert!(refusal(&[("TERSE_ADMIN_KEY_FILE", "/nowhere/at/all")]).contains("cannot be read"));
}

#[test]
fn a_value_that_cannot_be_is_refused_by_name() {
    for (name, value, want) in [
        ("TERSE_LISTEN", "8080", "TERSE_LISTEN: listen must be ADDRESS:PORT such as"),
        ("TERSE_CACHE__TTL", "5", "a duration such as"),
        ("TERSE_CACHE__SIZE", "1KiB", "from 1MiB"),
        ("TERSE_CACHE__NEGATIVE_TTL", "61s", "from 0s to 1m"),
        ("TERSE_CODES__LENGTH", "3", "from 4 to 10"),
        ("TERSE_CODES__LENGTH", "300", "a whole number from 0 to 255"),
        ("TERSE_CODES__MACHINE", "-1", "a whole number"),
        ("TERSE_CODES__STRATEGY", "uuid", "one of numbered, random, hash, snowflake"),
        ("TERSE_ANONYMOUS__CREATE", "yes", "true or false"),
        ("TERSE_ADMIN_KEY", "tooshort", "16 to 256"),
        ("TERSE_ADMIN_KEY", "has a space in the middle", "16 to 256"),
        ("TERSE_STORE", "mysql://u:p@h/db", "mysql: is not a kind of store"),
        ("TERSE_BASE_URL", "https://go.example/s", "a path is not supported"),
        ("TERSE_DOMAINS", "https://b.example", "not a host name"),
        ("TERSE_SAFETY__LISTS", "http://feeds.example/x?key=hunter2", "must be fetched by https"),
        ("TERSE_SAFETY__LISTS", "ftp://feeds.example/x", "a file or an https URL"),
        ("TERSE_SAFETY__LISTS", "a/bad.txt,b/bad.txt", "two lists are called"),
        ("TERSE_SAFETY__WARN_ON", "look_alike,lookalike", "\"lookalike\" is not known"),
        ("TERSE_SAFETY__LISTS_EVERY", "1s", "from 1m to 7d"),
        ("TERSE_DOMAINS", "127.0.0.1", "is the host of base_url"),
        ("TERSE_ROLES", "redirect,cook", "is not a role"),
        ("TERSE_ROLES", "", "at least one role"),
        ("TERSE_ADMIN__LISTEN", "127.0.0.1:8080", "must differ"),
        ("TERSE_LOG__LEVEL", "terse=loud", "log.level"),
        ("TERSE_SAFETY__BLOCKED_HOSTS", "a b", "cannot be a host"),
        ("TERSE_REDIRECT__STORE_CONCURRENCY", "0", "from 1 to"),
    ] {
        let error = refusal(&[(name, value)]);
        assert!(error.contains(want), "{name}={value}: {error}");
        assert!(!error.contains("tooshort") && !error.contains("u:p"), "{error}");
    }
    for (text, want) in [
        ("listen = 8080", "text in quotes is expected, not an integer"),
        ("cache.negative_entries = \"5\"", "a whole number"),
        ("domains = \"b.example\"", "a list is expected, not a string"),
        ("admin_key = 12345678901234567", "not an integer"),
        ("listen = ", "line 1"),
        ("a = 1\na = 2", "line 2"),
    ] {
        let error = from_toml(text).unwrap_err().to_string();
        assert!(error.contains(want) && !error.contains("12345678901234567"), "{error}");
    }
}

#[test]
fn safe_browsing_is_asked_by_https_with_a_key_that_stays_hidden() {
    for (url, fine) in [
        ("https://proxy.example", true),
        ("http://127.0.0.1:8080", true),
        ("http://[::1]:8080", true),
        ("http://localhost", true),
        ("http://proxy.example", false),
        ("http://10.0.0.1", false),
    ] {
        let loaded = load(&sources(None, &[("TERSE_SAFETY__SAFE_BROWSING_URL", url)], &[]));
        assert_eq!(loaded.is_ok(), fine, "{url}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "AIza-quite-a-key\n").unwrap();
    let env = [("TERSE_SAFETY__SAFE_BROWSING_KEY_FILE", file.path().to_str().unwrap())];
    let loaded = load(&sources(None, &env, &[])).unwrap();
    assert_eq!(
        loaded.config.safety.safe_browsing_key.as_ref().unwrap().reveal(),
        "AIza-quite-a-key"
    );
    assert!(!format!("{:?}", loaded.config).contains("AIza"));
    assert!(!loaded.to_toml().contains("AIza") && loaded.to_toml().contains("[hidden]"));
    let refused = refusal(&[("TERSE_SAFETY__SAFE_BROWSING_KEY", "AIza two words")]);
    assert!(refused.contains("safe_browsing_key") && !refused.contains("AIza"), "{refused}");
}

#[test]
fn what_is_printed_hides_secrets_and_can_be_read_again() {
    let env = [
        ("TERSE_ADMIN_KEY", "a-very-long-secret-key"),
        ("TERSE_CACHE__TTL", "90s"),
        ("TERSE_DOMAINS", "b.example"),
    ];
    let loaded = load(&sources(None, &env, &[])).unwrap();
    let text = loaded.to_toml();
    assert!(!text.contains("a-very-long") && !loaded.to_json().to_string().contains("a-very-long"));
    assert!(!format!("{loaded:?}").contains("a-very-long"));
    assert!(text.contains("admin_key = \"[hidden]\" # TERSE_ADMIN_KEY"), "{text}");
    assert!(text.contains("ttl = \"90s\" # TERSE_CACHE__TTL"), "{text}");
    assert!(text.contains("base_url = \"http://127.0.0.1:8080\"\n"), "{text}");
    assert_eq!(loaded.to_json()["settings"]["cache"]["ttl"], "90s");
    assert_eq!(loaded.to_json()["origins"]["cache.ttl"], "TERSE_CACHE__TTL");
    let again = from_toml(&text.replace("[hidden]", "a-very-long-secret-key")).unwrap();
    let mut filled =
        Config { base_url: Some("http://127.0.0.1:8080".parse().unwrap()), ..loaded.config };
    filled.cache.size = Some(ByteSize::mib(64));
    assert_eq!(again.config, filled);
}

#[test]
fn short_links_begin_with_an_address_that_can_be_visited() {
    for (listen, want) in [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("0.0.0.0:8080", "http://localhost:8080/"),
        ("[::]:80", "http://localhost/"),
        ("[::1]:8080", "http://[::1]:8080/"),
    ] {
        let config = load(&sources(None, &[("TERSE_LISTEN", listen)], &[])).unwrap().config;
        assert_eq!(config.base_url().as_str(), want);
    }
}

#[test]
fn the_manual_begins_with_the_settings_that_most_people_need() {
    let manual = Config::markdown();
    let (first, rest) = manual.split_once("## All others").unwrap();
    let names = |part: &str| part.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(names(first), 6, "{first}");
    assert!(first.contains("| `listen` |") && !rest.contains("| `listen` |"));
    assert!(rest.contains("| `cache.ttl` |"));
}

#[test]
fn the_manual_lists_every_setting() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- settings: begin -->\n", "<!-- settings: end -->");
    let start = page.find(begin).unwrap() + begin.len();
    let stop = page.find(end).unwrap();
    let want = Config::markdown();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{}{want}{}", &page[..start], &page[stop..])).unwrap();
    } else {
        assert_eq!(
            &page[start..stop],
            want,
            "run the tests with UPDATE=1 to rewrite docs/settings.md"
        );
    }
}

#[test]
fn the_only_process_of_a_file_store_runs_its_jobs() {
    let error = refusal(&[("TERSE_ROLES", "redirect,api,web")]);
    assert!(error.contains("must include worker while store is a file"), "{error}");
    load(&sources(None, &[("TERSE_ROLES", "redirect,worker")], &[])).unwrap();
}

#[test]
fn stores_that_do_not_fit_together_are_refused_by_name() {
    const TABLE: (&str, &str) = ("TERSE_STORE", "dynamodb://links?region=eu-central-1");
    const DATABASE: (&str, &str) = ("TERSE_STORE", "postgres://db/terse");
    const REGISTRY: (&str, &str) = ("TERSE_REGISTRY", "postgres://db/terse");
    let same_file = [("TERSE_REGISTRY", "file:clicks.db")];
    assert!(refusal(&same_file).contains("another file than store and clicks.store"));
    load(&sources(None, &[("TERSE_REGISTRY", "file:owners.db")], &[])).unwrap();
    // The rest needs stores that the default build does not have.
    if crate::backends::check_scheme("dynamodb").is_err() {
        return;
    }
    for (settings, name, part) in [
        (&[TABLE][..], "registry", "must be postgres://"),
        (&[TABLE, ("TERSE_REGISTRY", "file:registry.db")], "registry", "must be postgres://"),
        (&[DATABASE, ("TERSE_REGISTRY", "file:registry.db")], "registry", "must be postgres://"),
        (&[DATABASE, ("TERSE_REGISTRY", "postgres://db/other")], "registry", "database of store"),
        (&[REGISTRY], "registry", "must be a file while store is a file"),
        (&[DATABASE, ("TERSE_REGISTRY", TABLE.1)], "registry", "must be postgres://… or file:…"),
        (&[TABLE, REGISTRY, ("TERSE_CLICKS__STORE", "file:x.db")], "clicks.store", "clickhouse://"),
        (&[TABLE, REGISTRY, ("TERSE_CLICKS__STORE", TABLE.1)], "clicks.store", "not be DynamoDB"),
        (&[("TERSE_STORE", "dynamodb://a:b@links")], "store", "takes no credentials"),
    ] {
        let error = refusal(settings);
        assert!(error.contains(name) && error.contains(part), "{settings:?}: {error}");
    }
    let config = load(&sources(None, &[TABLE, REGISTRY], &[])).unwrap().config;
    assert!(config.is_shared() && !config.has_clicks_file());
    assert_eq!(config.clicks_database(), config.registry_database());
    assert_eq!(config.store.to_string(), TABLE.1);
}
