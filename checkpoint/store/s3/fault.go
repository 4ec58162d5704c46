package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint/store"
)

// fault says what an error of a server means, and what helps.
func (b *bucket) fault(ctx context.Context, what, key string, err error) error {
	if err == nil {
		return nil
	}
	help, kind := b.meaning(minio.ToErrorResponse(err))
	var unread *credentialsError
	if errors.As(err, &unread) {
		kind, help = store.ErrRefused, "there are no credentials"
	}
	if errors.Is(kind, store.ErrRefused) {
		b.keys.Expire() // they may have been changed: the next request looks
	}
	switch {
	case errors.Is(err, unix.ENOSPC):
		kind = store.ErrFull
	case kind == nil && ctx.Err() != nil:
		return fmt.Errorf("%s %s/%s: %w: %w: %v", what, b.Name(), key, store.ErrSilent, context.Cause(ctx), err)
	case kind == nil:
		kind = store.ErrSilent
	}
	// What the library wraps is only told: an error of this machine's files, say, must not be
	// taken for one of an object.
	if help != "" {
		return fmt.Errorf("%s %s/%s: %w: %s: %v", what, b.Name(), key, kind, help, err)
	}
	return fmt.Errorf("%s %s/%s: %w: %v", what, b.Name(), key, kind, err)
}

// meaning answers which of a store's errors the server means, and the remedy.
func (b *bucket) meaning(answer minio.ErrorResponse) (help string, kind error) {
	switch answer.Code {
	case "":
		return "", nil
	case "NoSuchKey", "NoSuchUpload", "PreconditionFailed":
		return "", fs.ErrNotExist
	case "NoSuchBucket", "PermanentRedirect", "AuthorizationHeaderMalformed":
		return fmt.Sprintf("see that bucket %s exists, and that endpoint and region are its own", b.name), store.ErrRefused
	case "RequestTimeTooSkewed":
		return "this machine's clock and the server's differ: see that both are set by NTP", store.ErrRefused
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "AccessDenied", "UnauthorizedAccess", "AllAccessDisabled":
		from := "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in gnoded's environment"
		if b.place.Credentials != "" {
			from = b.place.Credentials
		}
		return "see the credentials in " + from + ", and what they allow", store.ErrRefused
	case "QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull", "InsufficientStorage":
		return "", store.ErrFull
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		return "", fs.ErrNotExist
	case http.StatusForbidden, http.StatusUnauthorized:
		return "see the credentials, and what they allow", store.ErrRefused
	case http.StatusInsufficientStorage:
		return "", store.ErrFull
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return "", nil
	case http.StatusNotImplemented:
		return "the server lacks what a store needs", store.ErrRefused
	}
	if answer.StatusCode >= 400 && answer.StatusCode < 500 { // to ask again would not help
		return "", store.ErrRefused
	}
	return "", nil
}
