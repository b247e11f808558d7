//! `deploy/Dockerfile`: its last stage, built with buildah from a binary that exists already.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Sandbox, script, strip};

/// Builds the image of a binary at `archive`, which gets the ending `.gz`. `false` where buildah is
/// not installed, outside of CI.
fn build_image(binary: &Path, architecture: &str, archive: &Path) -> bool {
    let built = script("image").arg(binary).arg(architecture).arg(archive).output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    if said.contains("buildah: command not found") && std::env::var_os("TERSE_TEST_ALL").is_none() {
        println!("skipped: buildah is not installed");
        return false;
    }
    assert!(built.status.success(), "{said}");
    true
}

/// The binary under test, with the libraries of this machine, because it is not static.
/// `scripts/release` does the same with the static binary, without them.
#[test]
fn the_image_runs_without_rights_on_a_root_that_is_read_only() {
    if Sandbox::new().is_none() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let (binary, archive) = (temp.path().join("terse"), temp.path().join("image.tar"));
    strip(&binary);
    if !build_image(&binary, "amd64", &archive) {
        return;
    }
    let mut check = script("image-check");
    check.env("LIBRARIES", "yes").arg(temp.path().join("image.tar.gz"));
    let checked = check.output().unwrap();
    let said = [checked.stdout, checked.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(checked.status.success() && said.contains("the image works"), "{said}");
}

/// The image of a file that is no program, for another machine: only what it consists of is
/// compared.
#[test]
fn the_image_has_one_file_a_user_without_rights_and_a_health_check() {
    let temp = tempfile::tempdir().unwrap();
    let (binary, archive) = (temp.path().join("terse"), temp.path().join("image.tar"));
    std::fs::write(&binary, "not a program").unwrap();
    if !build_image(&binary, "arm64", &archive) {
        return;
    }
    let mut inspect = Command::new("tar");
    inspect.arg("-xzf").arg(temp.path().join("image.tar.gz")).arg("-C").arg(temp.path());
    assert!(inspect.status().unwrap().success());
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(temp.path().join(name)).unwrap()).unwrap()
    };
    let manifest = read("manifest.json");
    let image = read(manifest[0]["Config"].as_str().unwrap());
    assert_eq!(image["architecture"], "arm64");
    let config = &image["config"];
    assert_eq!(config["User"], "10001:10001");
    assert_eq!(config["Entrypoint"], serde_json::json!(["/usr/bin/terse"]));
    assert_eq!(
        config["Healthcheck"]["Test"],
        serde_json::json!(["CMD", "/usr/bin/terse", "health"])
    );
    assert!(config["Volumes"].as_object().unwrap().contains_key("/data"));
    // The binary, and a folder that its user may write to; nothing else, so no shell either.
    let mut files = Vec::new();
    for layer in manifest[0]["Layers"].as_array().unwrap() {
        let mut list = Command::new("tar");
        let list =
            list.arg("-tvf").arg(temp.path().join(layer.as_str().unwrap())).output().unwrap();
        files.extend(String::from_utf8(list.stdout).unwrap().lines().map(str::to_owned));
    }
    let of =
        |end: &str| files.iter().find(|line| line.trim_end_matches('/').ends_with(end)).cloned();
    assert!(of("data").is_some_and(|line| line.contains("10001/10001")), "{files:#?}");
    assert!(of("usr/bin/terse").is_some_and(|line| line.starts_with("-rwxr-xr-x")), "{files:#?}");
    let regular = files.iter().filter(|line| line.starts_with('-')).count();
    assert_eq!(regular, 1, "{files:#?}");
}

#[test]
fn the_single_node_of_compose_has_settings_that_exist() {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let mut read = Command::new("python3");
    let file = crate::sandbox::root().join("deploy/compose.single.yaml");
    let said = read.args(["-c", script]).arg(file).output().unwrap();
    if !said.status.success() && std::env::var_os("TERSE_TEST_ALL").is_none() {
        println!("skipped: python3-yaml is not installed");
        return;
    }
    let compose: Value = serde_json::from_slice(&said.stdout).unwrap();
    let node = &compose["services"]["terse"];
    assert_eq!(node["read_only"], true);
    assert_eq!(node["volumes"], serde_json::json!(["data:/data"]));
    let (_temp, data) = crate::process::folder();
    let mut show = crate::process::command(&data);
    show.arg("config");
    for (name, value) in node["environment"].as_object().unwrap() {
        let value = value.as_str().unwrap();
        show.env(name, if value.starts_with("${") { "https://go.example" } else { value });
    }
    let shown = show.output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
}
