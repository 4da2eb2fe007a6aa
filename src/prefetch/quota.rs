//! The CPU quota of this process's control groups.

/// Number of cores (perhaps a fraction) that the control groups allow, if they set a limit. Only on Linux.
pub(super) fn core_quota() -> Option<f64> {
    #[cfg(target_os = "linux")]
    return linux::quota("/sys/fs/cgroup".as_ref(), &std::fs::read_to_string("/proc/self/cgroup").ok()?);
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::read_to_string;
    use std::path::Path;

    /// Reads the quota of a group.
    type Told = fn(&Path) -> Option<f64>;

    /// The smallest quota of the process's groups and the groups around them. `mounted` is where these are mounted, and
    /// `groups` is the process's own list: `0::/a/b` in the second version, `3:cpu,cpuacct:/a/b` in the first.
    pub(super) fn quota(mounted: &Path, groups: &str) -> Option<f64> {
        let mut least: Option<f64> = None;
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let (places, told): (&[&str], Told) = if controllers.is_empty() {
                (&["", "unified"], second_version)
            } else if controllers.split(',').any(|controller| controller == "cpu") {
                (&["cpu", "cpu,cpuacct", "cpuacct,cpu"], first_version)
            } else {
                continue;
            };
            for place in places {
                // In a container, what is mounted begins with its own group, whatever path the process is told.
                for group in Path::new(path.trim_start_matches('/')).ancestors() {
                    let quota = told(&mounted.join(place).join(group));
                    least = quota.into_iter().chain(least).reduce(f64::min);
                }
            }
        }
        least
    }

    /// `150000 100000` means one and a half cores; `max 100000` means no limit.
    fn second_version(group: &Path) -> Option<f64> {
        let told = read_to_string(group.join("cpu.max")).ok()?;
        let (quota, period) = told.trim().split_once(' ')?;
        cores(quota.parse().ok()?, period.parse().ok()?)
    }

    /// A quota of -1 means no limit.
    fn first_version(group: &Path) -> Option<f64> {
        let told = |name: &str| read_to_string(group.join(name)).ok()?.trim().parse().ok();
        cores(told("cpu.cfs_quota_us")?, told("cpu.cfs_period_us")?)
    }

    fn cores(quota: f64, period: f64) -> Option<f64> {
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    }
}

#[cfg(all(test, target_os = "linux", not(ringfeed_loom)))]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::linux::quota;

    #[test]
    fn the_least_of_all_groups_around_counts() {
        let folder = tempfile::tempdir().unwrap();
        let set = |group: &str, files: &[(&str, &str)]| {
            create_dir_all(folder.path().join(group)).unwrap();
            files.iter().for_each(|(name, told)| write(folder.path().join(group).join(name), told).unwrap());
        };
        let of = |groups: &str| quota(folder.path(), groups);
        assert_eq!(of("0::/\n"), None);
        set("", &[("cpu.max", "max 100000\n")]);
        set("pods/one", &[("cpu.max", "150000 100000\n")]);
        set("pods", &[("cpu.max", "400000 100000\n")]);
        assert_eq!(of("0::/pods/one\n"), Some(1.5));
        assert_eq!((of("0::/pods\n"), of("0::/\n"), of("nonsense\n0:\n")), (Some(4.0), None, None));
        set("cpu,cpuacct", &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]);
        assert_eq!(of("4:cpu,cpuacct:/docker/7\n3:cpuset:/\n"), None);
        set("cpu,cpuacct", &[("cpu.cfs_quota_us", "50000\n")]);
        assert_eq!(of("4:cpu,cpuacct:/docker/7\n3:cpuset:/\n"), Some(0.5), "of a container, mounted without its path");
        assert_eq!(of("4:cpu,cpuacct:/docker/7\n0::/pods\n"), Some(0.5));
    }
}
