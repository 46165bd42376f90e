/* status.c - statuses and their texts, from the one list in the public header. */
#include "incipit/cache.h"

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *icp_version(void)
{
    return VERSION_TEXT(ICP_VERSION_MAJOR, ICP_VERSION_MINOR, ICP_VERSION_PATCH);
}

const char *icp_status_name(icp_status status)
{
    switch (status) {
#define NAME_CASE(name, text) \
    case ICP_##name:          \
        return "ICP_" #name;
        ICP_STATUS_LIST(NAME_CASE)
#undef NAME_CASE
    case ICP_STATUS_COUNT:
        break;
    }
    return "ICP_?";
}

const char *icp_status_text(icp_status status)
{
    switch (status) {
#define TEXT_CASE(name, text) \
    case ICP_##name:          \
        return text;
        ICP_STATUS_LIST(TEXT_CASE)
#undef TEXT_CASE
    case ICP_STATUS_COUNT:
        break;
    }
    return "not a status of this library";
}
