use base64::Engine as _;

/// DER as PEM: servers read certificates and keys from files in PEM only.
pub fn pem(label: &str, der: &[u8]) -> String {
    let digits = base64::engine::general_purpose::STANDARD.encode(der).into_bytes();
    let lines: Vec<_> = digits.chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
