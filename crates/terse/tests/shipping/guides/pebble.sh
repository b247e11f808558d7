# Starts Pebble, which takes the place of Let's Encrypt, at the ports of the Internet.
mkdir -p /etc/pebble && cd /etc/pebble
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=pebble -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
    -keyout api.key -out api.pem 2>/dev/null
chmod 644 api.pem
cat >pebble.json <<'END'
{"pebble": {"listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "certificate": "/etc/pebble/api.pem",
  "privateKey": "/etc/pebble/api.key", "httpPort": 80, "tlsPort": 443, "ocspResponderURL": "", "externalAccountBindingRequired": false}}
END
pebble-challtestsrv -dns01 127.0.0.1:8053 -management 127.0.0.1:8055 -http01 '' -https01 '' -tlsalpn01 '' -defaultIPv4 127.0.0.1 -defaultIPv6 '' >/dev/null 2>&1 &
PEBBLE_VA_NOSLEEP=1 pebble -config pebble.json -dnsserver 127.0.0.1:8053 >/dev/null 2>&1 &
curl --retry 50 --retry-delay 1 --retry-all-errors -sS --cacert api.pem https://127.0.0.1:15000/roots/0 >root.pem
export CURL_CA_BUNDLE=/etc/pebble/root.pem
cd /root
