//! `process_…`: what the process uses, and `terse_build_info`.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Writes the metrics of the process. Values that the system does not report are left out.
pub(crate) fn encode(encoder: &mut DescriptorEncoder<'_>, started_seconds: f64) -> fmt::Result {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu_seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    encoder
        .encode_descriptor(
            "process_cpu_seconds",
            "Processor time of the process, in user and kernel mode",
            None,
            MetricType::Counter,
        )?
        .encode_counter::<NoLabelSet, _, f64>(&cpu_seconds, None)?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> Option<i64> {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_ascii_whitespace().next()?.parse().ok()
    };
    let kib = |name: &str| field(name).map(|kib| kib * 1024);
    let open_files = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    let most_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let as_i64 = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let gauges = [
        ("process_resident_memory_bytes", "Memory of the process", kib("VmRSS:")),
        ("process_virtual_memory_bytes", "Address space of the process", kib("VmSize:")),
        ("process_threads", "Threads of the process", field("Threads:")),
        // The folder itself is open while it is read.
        (
            "process_open_fds",
            "Open files of the process",
            open_files.map(|files| as_i64(files.saturating_sub(1))),
        ),
        (
            "process_max_fds",
            "The most files that the process may open",
            most_files.map(|most| i64::try_from(most).unwrap_or(i64::MAX)),
        ),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
    }
    encoder
        .encode_descriptor(
            "process_start_time_seconds",
            "When the process started, in seconds since 1970",
            None,
            MetricType::Gauge,
        )?
        .encode_gauge(&started_seconds)?;
    encoder
        .encode_descriptor("terse_build", "The version of terse", None, MetricType::Info)?
        .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
}
