//! Loops that are compiled for more than one kind of processor.

/// Such a loop. `run` must be `#[inline(always)]`, so that it is compiled inside of the function that has the features.
pub(crate) trait Kernel {
    fn run(self);
}

/// Runs the loop in the fastest way for the current processor: with AVX2 and FMA if it has both.
pub(crate) fn dispatch(kernel: impl Kernel) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2_and_fma(kernel: impl Kernel) {
            kernel.run();
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the only condition is that the processor has AVX2 and FMA, which was just asked of it.
            return unsafe { with_avx2_and_fma(kernel) };
        }
    }
    kernel.run();
}
