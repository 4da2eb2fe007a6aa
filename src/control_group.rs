//! The limits of this process's control groups. Only on Linux.

/// Number of cores (perhaps a fraction) that the control groups allow, if they set a limit.
pub(crate) fn cores() -> Option<f64> {
    #[cfg(target_os = "linux")]
    return linux::least(&linux::own()?, &linux::CORES);
    #[cfg(not(target_os = "linux"))]
    None
}

/// Bytes of memory that the control groups allow, if they set a limit.
pub(crate) fn memory() -> Option<u64> {
    #[cfg(target_os = "linux")]
    return linux::least(&linux::own()?, &linux::MEMORY);
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::read_to_string;
    use std::path::Path;
    use std::str::FromStr;

    /// A limit, and how a group of either version tells it.
    pub(super) struct Limit<T> {
        controller: &'static str,
        second_version: fn(&Path) -> Option<T>,
        /// Where the controller is mounted.
        places: &'static [&'static str],
        first_version: fn(&Path) -> Option<T>,
    }

    pub(super) const CORES: Limit<f64> = Limit {
        controller: "cpu",
        // `150000 100000` means one and a half cores; `max 100000` means no limit.
        second_version: |group| {
            let told = read_to_string(group.join("cpu.max")).ok()?;
            let (quota, period) = told.trim().split_once(' ')?;
            share(quota.parse().ok()?, period.parse().ok()?)
        },
        places: &["cpu", "cpu,cpuacct", "cpuacct,cpu"],
        // A quota of -1 means no limit.
        first_version: |group| {
            share(number(&group.join("cpu.cfs_quota_us"))?, number(&group.join("cpu.cfs_period_us"))?)
        },
    };

    pub(super) const MEMORY: Limit<u64> = Limit {
        controller: "memory",
        second_version: |group| number(&group.join("memory.max")),
        places: &["memory"],
        first_version: |group| number(&group.join("memory.limit_in_bytes")),
    };

    fn number<T: FromStr>(file: &Path) -> Option<T> {
        read_to_string(file).ok()?.trim().parse().ok()
    }

    fn share(quota: f64, period: f64) -> Option<f64> {
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    }

    /// Where groups are mounted, and the process's own list of them: `0::/a/b` in the second version,
    /// `3:cpu,cpuacct:/a/b` in the first.
    pub(super) fn own() -> Option<(&'static Path, String)> {
        Some(("/sys/fs/cgroup".as_ref(), read_to_string("/proc/self/cgroup").ok()?))
    }

    /// The smallest limit of the process's groups and the groups around them.
    pub(super) fn least<T: PartialOrd>((mounted, groups): &(&Path, String), limit: &Limit<T>) -> Option<T> {
        let mut least: Option<T> = None;
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let (places, told) = if controllers.is_empty() {
                (&["", "unified"][..], limit.second_version)
            } else if controllers.split(',').any(|controller| controller == limit.controller) {
                (limit.places, limit.first_version)
            } else {
                continue;
            };
            for place in places {
                // In a container, what is mounted begins with its own group, whatever path the process is told.
                for group in Path::new(path.trim_start_matches('/')).ancestors() {
                    let found = told(&mounted.join(place).join(group));
                    least = found.into_iter().chain(least).reduce(|one, other| if other < one { other } else { one });
                }
            }
        }
        least
    }
}

#[cfg(all(test, target_os = "linux", not(ringfeed_loom)))]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::linux::{CORES, MEMORY, least};

    #[test]
    fn the_least_of_all_groups_around_counts() {
        let folder = tempfile::tempdir().unwrap();
        let set = |group: &str, files: &[(&str, &str)]| {
            create_dir_all(folder.path().join(group)).unwrap();
            files.iter().for_each(|(name, told)| write(folder.path().join(group).join(name), told).unwrap());
        };
        let of = |groups: &str| least(&(folder.path(), groups.to_owned()), &CORES);
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
        let memory = |groups: &str| least(&(folder.path(), groups.to_owned()), &MEMORY);
        assert_eq!(memory("0::/pods/one\n"), None);
        set("pods/one", &[("memory.max", "max\n")]);
        set("pods", &[("memory.max", "4294967296\n")]);
        assert_eq!((memory("0::/pods/one\n"), memory("0::/\n")), (Some(4 << 30), None));
        set("memory", &[("memory.limit_in_bytes", "1073741824\n")]);
        assert_eq!(memory("5:memory:/docker/7\n0::/pods/one\n"), Some(1 << 30));
    }
}
