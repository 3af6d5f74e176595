// The stored corpora run through the fuzz targets: what a fuzzer found once stays found, without Clang.
