// How a device is doing: its memory's temperature and errors, and what its driver asks for. See
// figure.hpp.
#pragma once

#include "watch/figures/computed.hpp"

#include <array>

namespace vram::watch::figures {

template <auto Member>
inline constexpr auto kEccSinceBootOf = kHealth<&DeviceHealth::ecc_since_boot, Member>;
template <auto Member>
inline constexpr auto kEccEverOf = kHealth<&DeviceHealth::ecc_ever, Member>;
template <auto Member>
inline constexpr auto kRowsOf = kHealth<&DeviceHealth::remapped_rows, Member>;
template <auto Member>
inline constexpr auto kPagesOf = kHealth<&DeviceHealth::retired_pages, Member>;

inline constexpr ObjectType kEccType{
    .name = "ecc", .schema = "Ecc", .description = "Errors that the memory's check bits detected."};
inline constexpr ObjectType kRowsType{
    .name = "rows", .schema = "Rows", .description = "Rows of bad memory that were replaced."};
inline constexpr ObjectType kPagesType{
    .name = "pages", .schema = "Pages", .description = "Pages of bad memory that were retired."};

inline constexpr Group<Device> kEccSinceBoot{
    .key = "ecc_since_boot", .type = &kEccType, .meaning = "`ecc` since the driver was loaded"};
inline constexpr Group<Device> kEccEver{
    .key = "ecc_ever", .type = &kEccType, .meaning = "`ecc` in the device's lifetime"};
inline constexpr Group<Device> kRows{
    .key = "remapped_rows",
    .type = &kRowsType,
    .meaning = "`rows` of bad memory that were replaced",
    .is_known = [](const Device& device) { return device.health.remapped_rows.has_value(); }};
inline constexpr Group<Device> kPages{
    .key = "retired_pages",
    .type = &kPagesType,
    .meaning =
        "`pages` of bad memory that were retired (NVIDIA's GPUs before Ampere, AMD's); null "
        "if the device does not retire pages",
    .is_known = [](const Device& device) { return device.health.retired_pages.has_value(); }};

inline constexpr std::string_view kRowsHelp =
    "Rows of the memory that were replaced, by what was wrong with them: NVML "
    "nvmlDeviceGetRemappedRows.";
inline constexpr std::string_view kPagesHelp =
    "Pages of the memory that were taken out of use, by what was wrong with them: NVML "
    "nvmlDeviceGetRetiredPages_v2; amdgpu ras/gpu_vram_bad_pages (unknown).";

inline constexpr auto kErrorFigures = std::to_array<Figure<Device>>({
    {.key = "memory_temperature_celsius",
     .value = kHealth<&DeviceHealth::memory_celsius>,
     .unit = Unit::kCelsius,
     .meaning = "temperature of the memory",
     .detail = {.section = Section::kActivity, .name = "memory temperature"},
     .metric = {.name = "vram_gpu_memory_temperature_celsius",
                .after = "vram_gpu_mps_clients",
                .help = "Temperature of the memory: NVML field 82; hwmon of amdgpu."},
     .dcgm = {.name = "DCGM_FI_DEV_MEMORY_TEMP",
              .after = "DCGM_FI_DEV_GPU_TEMP",
              .help = "Temperature of the memory (in C)."}},
    {.in = &kEccSinceBoot,
     .key = "corrected",
     .value = kEccSinceBootOf<&EccCounts::corrected>,
     .unit = Unit::kCount,
     .meaning = "errors that were corrected",
     .detail = {.section = Section::kErrors, .name = "ECC since boot", .words = "corrected"},
     .metric = {.name = "vram_gpu_ecc_corrected_total",
                .kind = Kind::kCounter,
                .help = "Corrected memory errors since the driver was loaded: NVML "
                        "nvmlDeviceGetTotalEccErrors (volatile); amdgpu ras/umc_err_count."},
     .dcgm = {.name = "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
              .kind = Kind::kForeignCounter,
              .help = "Corrected memory errors since the driver was loaded."}},
    {.in = &kEccSinceBoot,
     .key = "uncorrected",
     .value = kEccSinceBootOf<&EccCounts::uncorrected>,
     .unit = Unit::kCount,
     .meaning = "errors that were not: the data that was read is lost",
     .detail = {.section = Section::kErrors, .name = "ECC since boot", .words = "uncorrected"},
     .metric = {.name = "vram_gpu_ecc_uncorrected_total",
                .kind = Kind::kCounter,
                .help = "Uncorrected memory errors since the driver was loaded: NVML "
                        "nvmlDeviceGetTotalEccErrors (volatile); amdgpu ras/umc_err_count."},
     .dcgm = {.name = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
              .kind = Kind::kForeignCounter,
              .help = "Uncorrected memory errors since the driver was loaded."}},
    {.in = &kEccEver,
     .key = "corrected",
     .value = kEccEverOf<&EccCounts::corrected>,
     .unit = Unit::kCount,
     .detail = {.section = Section::kErrors, .name = "ECC ever", .words = "corrected"},
     .metric = {.name = "vram_gpu_ecc_lifetime_corrected_total",
                .kind = Kind::kCounter,
                .help = "Corrected memory errors in the GPU's life: NVML "
                        "nvmlDeviceGetTotalEccErrors (aggregate)."},
     .dcgm = {.name = "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
              .kind = Kind::kForeignCounter,
              .help = "Corrected memory errors in the GPU's life."}},
    {.in = &kEccEver,
     .key = "uncorrected",
     .value = kEccEverOf<&EccCounts::uncorrected>,
     .unit = Unit::kCount,
     .detail = {.section = Section::kErrors, .name = "ECC ever", .words = "uncorrected"},
     .metric = {.name = "vram_gpu_ecc_lifetime_uncorrected_total",
                .kind = Kind::kCounter,
                .help = "Uncorrected memory errors in the GPU's life: NVML "
                        "nvmlDeviceGetTotalEccErrors (aggregate)."},
     .dcgm = {.name = "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
              .kind = Kind::kForeignCounter,
              .help = "Uncorrected memory errors in the GPU's life."}},
    {.in = &kRows,
     .key = "corrected",
     .value = kRowsOf<&RemappedRows::corrected>,
     .meaning = "rows replaced because of errors that could be corrected",
     .detail = {.section = Section::kErrors,
                .name = "remapped rows",
                .words = "for corrected errors"},
     .metric = {.name = "vram_gpu_remapped_rows_total",
                .kind = Kind::kCounter,
                .help = kRowsHelp,
                .labels = "cause",
                .label_value = "corrected"},
     .dcgm = {.name = "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
              .after = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
              .kind = Kind::kForeignCounter,
              .help = "Rows replaced for corrected errors."}},
    {.in = &kRows,
     .key = "uncorrected",
     .value = kRowsOf<&RemappedRows::uncorrected>,
     .meaning = "rows replaced because of other errors",
     .detail = {.section = Section::kErrors, .name = "remapped rows", .words = "for uncorrected"},
     .metric = {.name = "vram_gpu_remapped_rows_total",
                .kind = Kind::kCounter,
                .help = kRowsHelp,
                .labels = "cause",
                .label_value = "uncorrected"},
     .dcgm = {.name = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
              .after = "DCGM_FI_DEV_RETIRED_PENDING",
              .kind = Kind::kForeignCounter,
              .help = "Rows replaced for uncorrected errors."}},
    {.in = &kRows,
     .key = "is_pending",
     .value = kRowsOf<&RemappedRows::is_pending>,
     .meaning = "whether rows will be replaced at the next reset",
     .detail = {.section = Section::kErrors,
                .name = "remapped rows",
                .words = "waiting for a reset"},
     .metric = {.name = "vram_gpu_row_remap_pending",
                .help = "1: a row is replaced at the next reset: NVML nvmlDeviceGetRemappedRows."},
     .dcgm = {.name = "DCGM_FI_DEV_ROW_REMAP_PENDING",
              .after = "DCGM_FI_DEV_ROW_REMAP_FAILURE",
              .help = "1: a row is replaced at the next reset."}},
    {.in = &kRows,
     .key = "has_failed",
     .value = kRowsOf<&RemappedRows::has_failed>,
     .meaning = "whether a row could not be replaced",
     .detail = {.section = Section::kErrors,
                .name = "remapped rows",
                .words = "one could not be remapped"},
     .metric = {.name = "vram_gpu_row_remap_failed",
                .help = "1: a row could not be replaced: NVML nvmlDeviceGetRemappedRows."},
     .dcgm = {.name = "DCGM_FI_DEV_ROW_REMAP_FAILURE",
              .after = "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
              .help = "1: a row could not be replaced."}},
    {.in = &kPages,
     .key = "corrected",
     .value = kPagesOf<&RetiredPages::corrected>,
     .meaning = "pages retired after several corrected errors",
     .detail = {.section = Section::kErrors,
                .name = "retired pages",
                .words = "for corrected errors"},
     .metric = {.name = "vram_gpu_retired_pages_total",
                .kind = Kind::kCounter,
                .help = kPagesHelp,
                .labels = "cause",
                .label_value = "corrected"},
     .dcgm = {.name = "DCGM_FI_DEV_RETIRED_SBE",
              .kind = Kind::kForeignCounter,
              .help = "Pages retired for corrected errors."}},
    {.in = &kPages,
     .key = "uncorrected",
     .value = kPagesOf<&RetiredPages::uncorrected>,
     .meaning = "pages retired after an error that could not be corrected",
     .detail = {.section = Section::kErrors, .name = "retired pages", .words = "for uncorrected"},
     .metric = {.name = "vram_gpu_retired_pages_total",
                .kind = Kind::kCounter,
                .help = kPagesHelp,
                .labels = "cause",
                .label_value = "uncorrected"},
     .dcgm = {.name = "DCGM_FI_DEV_RETIRED_DBE",
              .kind = Kind::kForeignCounter,
              .help = "Pages retired for uncorrected errors."}},
    {.in = &kPages,
     .key = "of_any_cause",
     .value = kPagesOf<&RetiredPages::of_any_cause>,
     .meaning = "all retired pages, if the driver does not report the cause (AMD)",
     .detail = {.section = Section::kErrors,
                .name = "retired pages",
                .words = "for causes not told"},
     .metric = {.name = "vram_gpu_retired_pages_total",
                .kind = Kind::kCounter,
                .help = kPagesHelp,
                .labels = "cause",
                .label_value = "unknown"}},
    {.in = &kPages,
     .key = "is_pending",
     .value = kPagesOf<&RetiredPages::is_pending>,
     .meaning = "whether a bad page is in use until the next reset",
     .detail = {.section = Section::kErrors,
                .name = "retired pages",
                .words = "one waits for a reset"},
     .metric = {.name = "vram_gpu_page_retirement_pending",
                .help = "1: a bad page is in use until the next reset: NVML "
                        "nvmlDeviceGetRetiredPagesPendingStatus; amdgpu ras/gpu_vram_bad_pages."},
     .dcgm = {.name = "DCGM_FI_DEV_RETIRED_PENDING",
              .help = "1: a bad page is in use until the next reset."}},
    {.in = &kPages,
     .key = "has_failed",
     .value = kPagesOf<&RetiredPages::has_failed>,
     .meaning = "whether a page could not be retired",
     .detail = {.section = Section::kErrors,
                .name = "retired pages",
                .words = "one could not be retired"},
     .metric = {.name = "vram_gpu_page_retirement_failed",
                .help = "1: a bad page could not be taken out of use: amdgpu "
                        "ras/gpu_vram_bad_pages."}},
    {.key = "recovery_action",
     .value = kHealth<&DeviceHealth::recovery_action>,
     .meaning = "what the driver requests, such as `\"reset\"`",
     .detail = {.section = Section::kErrors, .name = "driver asks for"},
     .metric = {.name = "vram_gpu_recovery_action",
                .help = "1: the driver asks for this (none: for nothing): NVML field 230.",
                .labels = "action",
                .points = recovery_actions}},
});

inline constexpr auto kXidFigures = std::to_array<Figure<Device>>({
    {.key = "xids",
     .value = kRead<&Device::xids>,
     .meaning = "every `fault` that the driver reported while this program was running; null if it "
                "does not report faults, and in the first sample",
     .detail = {.section = Section::kErrors, .name = "Xid", .after = kFirst},
     .metric = {.name = "vram_gpu_xid_errors_total",
                .after = "vram_gpu_recovery_action",
                .kind = Kind::kCounter,
                .help = "Faults that the driver reported since this program watches, by Xid: NVML "
                        "nvmlEventSetWait_v2.",
                .labels = "xid",
                .points = xid_counts},
     .dcgm = {.name = "DCGM_FI_DEV_XID_ERRORS",
              .help = "The last Xid; 0: none so far.",
              .labels = "err_code",
              .points = last_xid,
              .ours = "`vram_gpu_xid_errors_total`, `vram_gpu_xid_last_timestamp_seconds`"}},
    {.unit = Unit::kNanoseconds,
     .metric = {.name = "vram_gpu_xid_last_timestamp_seconds",
                .after = "vram_gpu_xid_errors_total",
                .help = "When the driver last reported the fault, since 1970: this machine's "
                        "clock.",
                .labels = "xid",
                .points = xid_times}},
});

}  // namespace vram::watch::figures
