//! The Debian package: installed, used, upgraded, removed and purged, as a machine would.

use crate::sandbox::Sandbox;

/// What a shell checks along the way; each line must succeed.
const SCRIPT: &str = r#"
cd /root
is() { test "$1" = "$2" || { echo "$1 is not $2" >&2; exit 1; }; }
no() { if "$@" >/dev/null; then echo "still true: $*" >&2; exit 1; fi; }
dpkg -i terse_0.1.0_amd64.deb

# It runs as its own user, on a folder that nobody else can read.
is "$(stat -c '%U %G %a' /var/lib/terse)" 'terse terse 700'
is "$(stat -c '%U %a' /etc/terse/terse.env)" 'root 600'
is "$(ps -o user= -C terse)" terse
systemctl is-enabled terse
terse --data-dir /var/lib/terse shorten https://example.com/ --alias kept
curl -sSI http://127.0.0.1:8080/kept | grep -i '^location: https://example.com/'

# systemd understands the units, and they give little away.
systemd-analyze verify /lib/systemd/system/terse.service /lib/systemd/system/terse.socket /lib/systemd/system/terse-backup.timer
systemd-analyze security --offline=true --threshold=19 --no-pager /lib/systemd/system/terse.service >/dev/null

# Manual pages and completions are there, and shells understand them.
zcat /usr/share/man/man1/terse-shorten.1.gz | grep alias >/dev/null
bash -n /usr/share/bash-completion/completions/terse
! command -v zsh >/dev/null || zsh -n /usr/share/zsh/vendor-completions/_terse
! command -v fish >/dev/null || fish -n /usr/share/fish/vendor_completions.d/terse.fish
dpkg --verify terse

# An upgrade keeps settings and data, and restarts the service.
echo TERSE_ANONYMOUS__CREATE=false >>/etc/terse/terse.env
before=$(cat /run/units/terse.service.pid)
dpkg-deb -R terse_0.1.0_amd64.deb newer
sed -i 's/^Version: .*/Version: 0.1.1/' newer/DEBIAN/control
echo '# A new setting.' >>newer/etc/terse/terse.env
dpkg-deb -Znone -b newer terse_0.1.1_amd64.deb >/dev/null
dpkg --force-confdef --force-confold -i terse_0.1.1_amd64.deb
grep -x TERSE_ANONYMOUS__CREATE=false /etc/terse/terse.env
test "$(cat /run/units/terse.service.pid)" != "$before"
curl -sSI http://127.0.0.1:8080/kept | grep -i '^location: https://example.com/'
is "$(dpkg-query -f '${Version}' -W terse)" 0.1.1

# A removal keeps data, settings and user.
terse --data-dir /var/lib/terse backup /var/backups/terse/one
dpkg -r terse
no ps -C terse
no test -e /usr/bin/terse
test -s /var/lib/terse/terse.db
test -s /etc/terse/terse.env
getent passwd terse
dpkg --force-confold -i terse_0.1.0_amd64.deb
curl -sSI http://127.0.0.1:8080/kept | grep -i '^location: https://example.com/'

# A purge deletes them; backups stay.
dpkg -P terse
no ps -C terse
no test -e /var/lib/terse
no test -e /etc/terse
no getent passwd terse
test -s /var/backups/terse/one/manifest.json
echo done
"#;

#[test]
fn the_package_is_installed_upgraded_removed_and_purged() {
    let Some(sandbox) = Sandbox::new() else { return };
    let said = sandbox.run(SCRIPT);
    assert!(said.contains("\ndone\n"), "{said}");
}
